"""The documentation: Markdown pages, and under ``_generate`` the scripts that write what must not go stale."""
