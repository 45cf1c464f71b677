"""The untrusted side and the judge's hold on it: what contestants may do and what they are told."""
