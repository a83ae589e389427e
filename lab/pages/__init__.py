"""Makes what people read: checks, reports, the list of studies, README's tables, comparisons."""
