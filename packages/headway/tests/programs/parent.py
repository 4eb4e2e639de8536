import subprocess
import sys
import time

sys.stdin.readline()
subprocess.Popen(["sleep", "600"])
print(flush=True)
time.sleep(600)
