"""The trusted handle on a candidate or baseline process."""
