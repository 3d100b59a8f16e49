"""Writes this folder's Parquet files, as pyarrow 26.0.1 did: `python3 make_parquet.py`, with pyarrow installed.

The rows have what data sets on the Hugging Face hub have: texts, numbers, lists, lists of structs, maps, times, nulls.
"""
import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
SCHEMA = pa.schema([
    ("text", pa.string()), ("id", pa.int64()), ("small", pa.uint8()), ("score", pa.float64()), ("good", pa.bool_()),
    ("input_ids", pa.list_(pa.int32())), ("messages", pa.list_(MESSAGE)), ("tags", pa.map_(pa.string(), pa.int32())),
    ("raw", pa.binary()), ("price", pa.decimal128(9, 2)), ("day", pa.date32()),
])
ROWS = [
    {"text": "Rank 0 \u00e4\u4e16\U0001f600\nline", "id": 2**53 + 1, "small": 255, "score": 0.1, "good": True, "input_ids": [1, 2, 3],
     "messages": [{"role": "user", "content": "hot ?"}, {"role": "assistant", "content": "cold"}], "tags": [("a", 1), ("b", 2)],
     "raw": b"plain", "price": decimal.Decimal("12.50"), "day": datetime.date(2026, 11, 22)},
    {"text": "", "id": -1, "small": 0, "score": -2.5e300, "good": False, "input_ids": [], "messages": [], "tags": [],
     "raw": b"\xff\x00", "price": decimal.Decimal("0.01"), "day": datetime.date(1970, 1, 1)},
    dict.fromkeys(SCHEMA.names),
] + [{**dict.fromkeys(SCHEMA.names), "text": f"row {i % 5}", "id": i} for i in range(3, 40)]


def as_json(row):
    row = {**row, "raw": None if row["raw"] in (None, b"\xff\x00") else row["raw"].decode()}
    row["tags"] = None if row["tags"] is None else dict(row["tags"])
    row["price"] = None if row["price"] is None else str(row["price"])
    row["day"] = None if row["day"] is None else str(row["day"])
    return row


table = pa.Table.from_pylist(ROWS, SCHEMA)
for compression in ["snappy", "zstd", "gzip", "lz4", "brotli", "none"]:
    pq.write_table(table, f"{compression}.parquet", compression=compression, row_group_size=16,
                   data_page_version="2.0" if compression == "zstd" else "1.0")
with open("rows.parquet.json", "w") as out:
    json.dump([as_json(row) for row in ROWS], out, ensure_ascii=False)
