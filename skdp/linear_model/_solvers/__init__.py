"""One algorithm a file: records and a budget in, released values out."""
