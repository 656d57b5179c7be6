"""Tandem's own Python client: at once, streamed, and asynchronously."""
import asyncio
import sys

from tandem_infer import client as tandem_client

url, text = sys.argv[1:]
with tandem_client.Client(url) as client:
    print(client.complete(text).text)
    print("".join(chunk.text for chunk in client.stream(text)))


async def main():
    async with tandem_client.AsyncClient(url) as client:
        for answer in await asyncio.gather(client.complete(text), client.complete(text)):
            print(answer.text)


asyncio.run(main())
