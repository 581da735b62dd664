"""Private set intersection: two parties find the users they share without revealing any others.

This package belongs to neither stage: it produces the user list that ``publish`` takes. ``docs/mathematics.md`` has the
protocol and the argument that it is private; ``docs/threat-model.md`` says what it does not protect against.
"""
