// The C ABI of the Rust library in this folder; src/lib.rs holds the other side.
//
// Functions that return bool write their result to `out` and return true, or write a text to
// `error` and return false; nothing unwinds across. All texts are UTF-8 and end by their size. What
// is opened is closed once, what is given is freed once. Opened objects may be used from several
// threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LockstepTokenizer LockstepTokenizer;
typedef struct LockstepTemplate LockstepTemplate;
typedef struct LockstepRows LockstepRows;

typedef struct {
  uint8_t* data;
  size_t size;
} LockstepBytes;

typedef struct {
  uint64_t* data;
  size_t size;
} LockstepNumbers;

typedef struct {
  struct {
    uint32_t* data;
    size_t size;
  } ids;
  LockstepNumbers offsets;  // begin and end of each id in the text, in code points
} LockstepEncoding;

typedef struct {
  LockstepBytes text;
  LockstepNumbers spans;  // begin and end of each {% generation %} block, in code points
} LockstepRendering;

typedef enum {
  kLockstepRowsJsonList = 0,
  kLockstepRowsCsv = 1,
  kLockstepRowsTsv = 2,
  kLockstepRowsParquet = 3,
} LockstepRowFormat;

typedef struct {
  LockstepBytes text;  // a JSON value; empty behind the last row
  uint64_t line;       // its first line in the file, of Parquet its number; 0 behind the last row
} LockstepRow;

bool lockstep_tokenizer_open(const uint8_t* json, size_t size, LockstepTokenizer** out,
                             LockstepBytes* error);
void lockstep_tokenizer_close(LockstepTokenizer* tokenizer);
bool lockstep_tokenizer_num_ids(const LockstepTokenizer* tokenizer, bool with_added_tokens,
                                uint64_t* out, LockstepBytes* error);
// -1: no such token.
bool lockstep_tokenizer_id_of(const LockstepTokenizer* tokenizer, const uint8_t* token, size_t size,
                              int64_t* out, LockstepBytes* error);
bool lockstep_tokenizer_encode(const LockstepTokenizer* tokenizer, const uint8_t* input,
                               size_t size, bool add_special_tokens, LockstepEncoding* out,
                               LockstepBytes* error);
bool lockstep_tokenizer_decode(const LockstepTokenizer* tokenizer, const uint32_t* ids,
                               size_t num_ids, bool skip_special_tokens, LockstepBytes* out,
                               LockstepBytes* error);

bool lockstep_template_open(const uint8_t* source, size_t size, LockstepTemplate** out,
                            LockstepBytes* error);
void lockstep_template_close(LockstepTemplate* chat_template);
bool lockstep_template_marks_generation(const LockstepTemplate* chat_template);
// `variables`: a JSON object. `now_microseconds`: of strftime_now, since 1970.
bool lockstep_template_render(const LockstepTemplate* chat_template, const uint8_t* variables,
                              size_t size, int64_t now_microseconds, LockstepRendering* out,
                              LockstepBytes* error);

// `data`: the file's contents, which outlive the rows. Rows are read by one thread.
bool lockstep_rows_open(const uint8_t* data, size_t size, uint32_t format, LockstepRows** out,
                        LockstepBytes* error);
void lockstep_rows_close(LockstepRows* rows);
// Must not be called again after it failed.
bool lockstep_rows_next(LockstepRows* rows, LockstepRow* out, LockstepBytes* error);

void lockstep_text_free_bytes(LockstepBytes bytes);
void lockstep_text_free_encoding(LockstepEncoding encoding);
void lockstep_text_free_rendering(LockstepRendering rendering);

#ifdef __cplusplus
}
#endif
