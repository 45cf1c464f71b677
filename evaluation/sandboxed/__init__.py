"""UNTRUSTED: the only code of the judge that runs beside a candidate, inside the sandbox."""
