"""What people read: checks, a study's report, the list of studies, README's tables, comparisons."""
