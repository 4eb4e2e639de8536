from ..reading._mapped import MappedMemory

class TaskRecords(MappedMemory):
    def task_name(self, number: int) -> str | None: ...
