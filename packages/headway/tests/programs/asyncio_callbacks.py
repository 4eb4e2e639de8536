import asyncio
import time


async def main() -> None:
    for _ in range(2000):
        end = time.perf_counter() + 100e-6
        while time.perf_counter() < end:
            pass
        await asyncio.sleep(0)


asyncio.run(main())
