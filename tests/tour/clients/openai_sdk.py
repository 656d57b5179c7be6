"""The openai package: completions and chat, at once and streamed."""
import sys

from openai import OpenAI

url, text = sys.argv[1:]
client = OpenAI(base_url=url + "/v1", api_key="none")
model = client.models.list().data[0].id
print(client.completions.create(model=model, prompt=text).choices[0].text)
print("".join(c.choices[0].text for c in client.completions.create(model=model, prompt=text, stream=True) if c.choices))
messages = [{"role": "user", "content": text}]
print(client.chat.completions.create(model=model, messages=messages).choices[0].message.content)
stream = client.chat.completions.create(model=model, messages=messages, stream=True)
print("".join(c.choices[0].delta.content or "" for c in stream if c.choices))
