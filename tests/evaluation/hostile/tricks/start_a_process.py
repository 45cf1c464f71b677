# trick: starts a process
# row: 51
# expect: failed/CALL_ERROR
# triage: import
import subprocess


def centred(x, scale):
    subprocess.run(["/bin/true"], check=True)
    return (x - x.mean(-1, keepdim=True)) * scale
