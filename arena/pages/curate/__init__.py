"""The pages of curators, below /curate/."""
