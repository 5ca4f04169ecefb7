"""Measure."""
import time, sys
import asyncio
from holdfast.server.identity.keeping import Directory
from holdfast.server.identity.entries import User, Membership
from holdfast.server.identity.keys import KeyAuthentication, new_key


async def test_measure(directory: Directory, acme: str, db) -> None:
    for n in range(300):
        await directory.add(User(tenant=acme, id=f"u{n}"))
        await directory.add(Membership(tenant=acme, workspace="default", user=f"u{n}"))
        await new_key(directory, tenant=acme, user=f"u{n}")
    _, text = await new_key(directory, tenant=acme, user="alice")
    auth = KeyAuthentication(directory)
    h = {"x-api-key": text}
    for _ in range(50): await auth(h)
    times=[]
    for _ in range(500):
        t=time.perf_counter(); await auth(h); times.append(time.perf_counter()-t)
    times.sort()
    t=time.perf_counter()
    await asyncio.gather(*(auth(h) for _ in range(500)))
    print("MEASURED", db.store.name, f"p50 {times[250]*1e3:.3f} ms p99 {times[494]*1e3:.3f} ms; 500 at once {(time.perf_counter()-t)*1e3:.0f} ms", file=sys.__stderr__)
