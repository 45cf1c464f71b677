"""Rules about results: the best round, records, standings, rewards and versions of the judge."""
