"""litellm, as people route requests to a server of their own: chat, at once and streamed, and text completion."""
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing from the internet
import litellm  # noqa: E402

url, text = sys.argv[1:]
to = {"model": "openai/demo-model", "api_base": url + "/v1", "api_key": "none"}
messages = [{"role": "user", "content": text}]
print(litellm.completion(messages=messages, **to).choices[0].message.content)
print("".join(c.choices[0].delta.content or "" for c in litellm.completion(messages=messages, stream=True, **to)))
to["model"] = "text-completion-openai/demo-model"
print(litellm.text_completion(prompt=text, **to).choices[0].text)
