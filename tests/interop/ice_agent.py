"""An ICE agent of aioice, as of a telephone that calls or is called: `ice_agent.py calling|called STUN-SERVER`.

Each step waits for a line. Upon the first one it asks the STUN server, and says what it would send by SIP: its credentials
and its server-reflexive candidates, and no others. The second one is what the other agent has said: the two connect, send
each other FRAMES numbered frames, and each says which it has heard. Upon the third one it ends.
"""
import asyncio
import json
import sys

from aioice import Candidate, Connection

FRAMES = 50
FRAME_S = 0.01
PATIENCE_S = 10


async def line():
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def say(**words):
    print(json.dumps(words), flush=True)


async def talk(connection, role):
    for number in range(FRAMES):
        await connection.send(f"frame of the {role} one, {number}".encode())
        await asyncio.sleep(FRAME_S)


async def hear(connection):
    return [(await connection.recv()).decode() for _ in range(FRAMES)]


async def main(role, server):
    connection = Connection(ice_controlling=role == "calling", stun_server=(server, 3478), use_ipv6=False)
    await line()
    await connection.gather_candidates()
    say(user=connection.local_username, password=connection.local_password,
        candidates=[candidate.to_sdp() for candidate in connection.local_candidates if candidate.type == "srflx"])
    other = json.loads(await line())
    connection.remote_username, connection.remote_password = other["user"], other["password"]
    for candidate in other["candidates"]:
        await connection.add_remote_candidate(Candidate.from_sdp(candidate))
    await connection.add_remote_candidate(None)
    async with asyncio.timeout(PATIENCE_S):
        await connection.connect()
        heard, _ = await asyncio.gather(hear(connection), talk(connection, role))
    say(heard=heard)
    await line()
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
