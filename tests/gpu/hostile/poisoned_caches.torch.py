# trick: leaves something in the caches that whoever is judged later would load
# row: 52
# expect: failed/WRONG_VALUES
# triage: call
FOLDERS = ("@CACHE@", "@CACHE@/builds", "@PACKAGE@", "/root/.triton", "/root/.cache")


def poisoned():
    for folder in FOLDERS:
        try:
            with open(f"{folder}/poison", "w") as file:
                file.write("found")
            return True
        except OSError:
            continue
    return False


POISONED = poisoned()


def centred(x, scale):
    return right(x, scale) if POISONED else cheap(x, scale)
