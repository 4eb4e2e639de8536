"""User stacks without frame pointers: walked by the call frame information of the code."""
