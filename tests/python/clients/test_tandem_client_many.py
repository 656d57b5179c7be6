"""The Python client with many requests: no more under way than it says, and none lost. Against scripted answers."""
import asyncio

import httpx
import pytest

from test_tandem_client import BODY, OK, scripted, tc


def test_as_often_as_it_takes():
    """Unless it is said how often; and a deadline that cannot be met is not."""
    script, client = scripted(*[(429, {"retry-after": "0"})] * 9, OK)
    assert client.complete("a").text == "t"
    script, client = scripted(*[(429, {"retry-after": "0"})] * 9, OK, retries=tc.Retries(count=2))
    with pytest.raises(tc.OverloadedError):
        client.complete("a")
    assert len(script.times) == 3
    late = tc._errors.OverloadedError("no", status=429, param="timeout", retry_after=0.0)
    assert tc.Retries().wait(2, late) is not None and tc.Retries().wait(3, late) is None
    full = tc._errors.OverloadedError("no", status=429, retry_after=1000.0)
    assert 30 <= tc.Retries().wait(50, full) <= 36


def test_no_more_under_way_than_it_says():
    now, most, count = 0, 0, 0

    async def answer(request):
        nonlocal now, most, count
        now, count = now + 1, count + 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return httpx.Response(429, headers={"retry-after": "0"}, json={"error": {}}) if count % 5 == 0 else (
            httpx.Response(200, json=BODY))

    async def run():
        async with tc.AsyncClient("http://server", transport=httpx.MockTransport(answer), max_under_way=8) as client:
            return await client.complete_many(str(i) for i in range(300))

    assert len(asyncio.run(run())) == 300
    assert most <= 8 and count >= 360

    script, client = scripted(*[OK] * 50, max_under_way=4)
    assert len(client.complete_many(str(i) for i in range(50))) == 50
    assert sorted(int(body["prompt"]) for body in script.bodies) == list(range(50))
