"""Private set intersection: two parties find the users they share, and show each other no others.

Neither stage of the work: what comes of it is the user list that ``publish`` takes. The protocol and why it is private
are in ``docs/mathematics.md``; what it does not protect from is in ``docs/threat-model.md``.
"""
