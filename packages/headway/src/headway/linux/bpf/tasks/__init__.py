"""What a thread works on, by the word of its program."""
