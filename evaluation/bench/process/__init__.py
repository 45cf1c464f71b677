"""The judge's side of a candidate or baseline process."""
