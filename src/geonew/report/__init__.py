"""The campaign's results for people: one page of tables and figures, Markdown, and all numbers."""
