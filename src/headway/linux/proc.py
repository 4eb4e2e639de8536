class ProcSource:
    pass
