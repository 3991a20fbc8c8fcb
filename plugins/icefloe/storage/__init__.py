"""Bytes under keys, in memory, on disk and in object stores.

Read in this order:

- `store`: the contract; keys of objects, ranges of bytes, local files that become values, names of one store
- `location`: from a URL to a store, which is tried before it is used
- `options`: options of stores and tables, checked before obstore takes them
- `object_store`: stores on obstore
- `clients`: obstore's clients, and stores that did not answer
- `store_errors`: obstore's errors as ours
- `dynamodb_store`: a store in a table of DynamoDB, and one that creates there
- `dynamodb_items`: items, and values too large for one
- `dynamodb_table`: boto3's client of a table, and faults of AWS
- `local_store`: local disk, with files that are being written
- `local_folders`: folders for spilling, and temporary ones
- `requests`: several requests at once, and their numbers
"""

__all__ = ["dynamodb_table", "local_folders", "location", "options", "requests", "store"]
