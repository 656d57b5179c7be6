// libtandem.so: engines of this process behind a C interface, for Python (tandem_infer/_library.py)
// and whoever else loads it. What travels is JSON, as in docs/jsonl.md, but for arrays and
// documents.
//
// Strings that are returned belong to the caller, who gives them to tandem_free(). Errors are
// objects {"message", "type", "param", "code"}, with the types of docs/client.md. All functions may
// be called from any thread; none calls back. No Python is needed to load it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tandem_engine tandem_engine;
typedef struct tandem_inbox tandem_inbox;
typedef struct tandem_documents tandem_documents;

// Of this interface: a program that was written for another one must not go on.
#define TANDEM_LIBRARY_VERSION 5
int tandem_library_version(void);
// Of Tandem: "0.1.0".
const char* tandem_version(void);
void tandem_free(void* memory);
// The program `tandem`; see launcher/run_program.h.
int tandem_main(int argc, char** argv);

// Loads a model. `options`: an object with the flags of `tandem generate` for the model, the engine
// and its ranks, with underscores and without "--": {"model": "DIR", "dtype": "int8",
// "max_num_seqs": 64}. Downloads a model of the hub. Waits; gives up when *stop is not 0 (may be
// null). Null: *error says why.
tandem_engine* tandem_open(const char* options, const volatile int* stop, char** error);
// Fails what is under way. Its inboxes stay, and get the errors of that and of what is submitted
// afterwards. Nobody else uses the pointer from then on.
void tandem_close(tandem_engine* engine);
// What the model is: {"model", "dtype", "hears", "reads_images", "source_languages", …}.
char* tandem_facts(tandem_engine* engine);
// {"text": …} → {"token_ids": […]}, {"token_ids": […]} → {"text": …}. An error: {"error": …}.
char* tandem_tokenize(tandem_engine* engine, const char* request);

// Where news of requests arrive. Several may share an engine.
tandem_inbox* tandem_inbox_open(tandem_engine* engine);
// Cancels what has not ended.
void tandem_inbox_close(tandem_inbox* inbox);
// A descriptor that is readable while there is news. It belongs to the inbox.
int tandem_inbox_fd(tandem_inbox* inbox);

// Submits a request and never waits. `number` is unused among those that have not ended. `request`:
// {"line": object, "kind": "generate" or "score", "stream": bool, "timeout": seconds}. The line is
// one of docs/jsonl.md, or of docs/scoring.md for the kind "score". sound: the bytes of the file
// that the line names; null: the file is opened. Returns null, or an error. After an error there is
// no news of the request.
char* tandem_submit(tandem_inbox* inbox, uint64_t number, const char* request, size_t bytes,
                    const void* sound, size_t sound_bytes);
void tandem_cancel(tandem_inbox* inbox, uint64_t number);

// `last`: the request has ended, with a result or with {"error": …}. Others are chunks of streams:
// {"deltas": […]} as docs/jsonl.md has them. `json` does not repeat `values`, an embedding, nor
// `ids`, the encoder's tokens ("encoder_prompt_token_ids"); either may be null.
typedef struct {
  uint64_t number;
  int32_t last;
  char* json;
  size_t bytes;
  float* values;
  size_t num_values;
  int32_t* ids;
  size_t num_ids;
} tandem_news;
// Waits for `wanted` news, `milliseconds` at most; takes `capacity` of them at most. Returns how
// many. The caller frees `json`, `values` and `ids` of each.
size_t tandem_poll(tandem_inbox* inbox, int milliseconds, size_t wanted, tandem_news* news,
                   size_t capacity);

// The pages of a PDF file, by a program of its own (docs/design/decoder.md). `request`: {"path"} of
// a file, or without it `file` has the bytes; "pages": "1-3,7,9-", without it all. Returns
// {"pages": [1, …]} or {"error": …}. Waits.
char* tandem_pdf_pages(const char* request, const void* file, size_t bytes);
// One of them as a PNG file of *size bytes: {"page": 1, "dpi": 150} beside the path. Null: *error
// says why. Waits.
char* tandem_page_image(const char* request, const void* file, size_t bytes, size_t* size,
                        char** error);

// Documents whose texts are translated and whose markup stays in place (docs/documents.md). One
// thread at a time. `rules`: {"format": "html", "language": "en", "sentences": true, "glossary":
// [["source", "target"], …]}, all but "format" optional. "glossary_file" names a file instead.
// Null: *error says why; its param is "format" or "glossary".
tandem_documents* tandem_documents_open(const char* rules, char** error);
void tandem_documents_close(tandem_documents* documents);
// Reads the next document. *texts: how many of its texts are to be translated. Returns null, or an
// error whose param is "text".
char* tandem_documents_add(tandem_documents* documents, const char* source, size_t bytes,
                           size_t* texts);
// A text of a document, of *size bytes. Both count from 0.
char* tandem_documents_text(tandem_documents* documents, size_t document, size_t text,
                            size_t* size);
// The translation of that text.
void tandem_documents_answer(tandem_documents* documents, size_t document, size_t text,
                             const char* translation, size_t bytes);
// The document with its translations, of *size bytes. It is gone afterwards.
char* tandem_documents_write(tandem_documents* documents, size_t document, size_t* size);
// The document's text without markup, of *size bytes.
char* tandem_documents_plain_text(tandem_documents* documents, size_t document, size_t* size);

// An array in memory without gaps, the last index fastest. dtype: numpy's name for it.
typedef struct {
  const char* name;
  const char* dtype;
  void* data;
  const int64_t* shape;
  int32_t rank;
} tandem_array;
// An op of docs/layouts.md over the caller's arrays, on the CPU. `request`: {"op", "kv_layout",
// "causal", "sm_scale", "logits_soft_cap", "threads"}, all but "op" optional. Names of ops and
// arrays: kernels/layouts/layout_call.h. Outputs are arrays too, and are written in place. Waits.
// Returns null, or an error, after which nothing is written.
char* tandem_attention(const char* request, const tandem_array* arrays, size_t count);

#ifdef __cplusplus
}
#endif
