"""What tests share and others may reuse: reference forms, laws with computed error rates, hypothesis strategies.

Never imported by the library itself.
"""
