"""What may happen: switches that halt work, tokens that open the door, masking, and an eye on the disk.

Promises: a switch is obeyed by whoever asks its switchboard; a token's secret is stored as a hash alone;
masked text holds no mail address, phone number, card number, account number, key or token.

Never: does the work that it allows, or changes a task.
"""
