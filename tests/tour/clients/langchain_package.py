"""langchain-openai: a chat model, asked at once, streamed and in a batch; and embeddings."""
import sys

from langchain_openai import ChatOpenAI, OpenAIEmbeddings

url, text = sys.argv[1:]
chat = ChatOpenAI(model="demo-model", base_url=url + "/v1", api_key="none")
print(chat.invoke(text).content)
print("".join(chunk.content for chunk in chat.stream(text)))
for answer in chat.batch([text, text]):
    print(answer.content)
# Token ids instead of texts would be another model's: check_embedding_ctx_length has to be off for any server but OpenAI's.
vectors = OpenAIEmbeddings(model="demo-model", base_url=url + "/v1", api_key="none", check_embedding_ctx_length=False)
assert abs(sum(x * x for x in vectors.embed_query(text)) - 1) < 1e-3
