"""Read-only questions about recordings and saved documents, for programs that ask by the Model Context Protocol.

`readable` says which files may be read, `arguments` checks what was asked, `tools` has the questions, `answers` the
form of what is answered, and `server` speaks the protocol on standard input and output.
"""
