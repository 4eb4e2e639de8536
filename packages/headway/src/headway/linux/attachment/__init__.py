"""Having a running CPython execute a script of headway's (PEP 768), and what that is to do.

`debugger` is the protocol, `folder` brings the files into the file system of the process, `attach` does both.
"""
