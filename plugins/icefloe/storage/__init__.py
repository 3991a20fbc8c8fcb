"""Bytes under keys, in memory, on disk and in object stores.

Read in this order:

- `store`: the contract
- `location`: from a URL to a store
- `keys`: keys of objects: relative paths
- `object_store`: stores on obstore
- `clients`: obstore's clients of one store
- `options`: options, checked before obstore takes them
- `dynamodb_store`: a store in a table of DynamoDB, and one whose create-if-absent goes to such a table
- `dynamodb_items`: the items of a place, and values that are too large for one
- `dynamodb_table`: boto3's client of a table
- `dynamodb_access`: options that open the table
- `aws_faults`: faults of services of AWS that may pass, and errors of a table
- `certificates`: authorities of one's own, and certificates that are refused
- `refusals`: refusals that obstore has no type for
- `store_errors`: obstore's errors as ours
- `store_health`: stores that did not answer
- `local_store`: local disk
- `unfinished`: files that are being written
- `local_file`: a local file that is to become a value
- `local_folders`: local disks of a task: folders for spilling, and temporary ones
- `ranges`: many small ranges in few requests
- `parallel`: several requests at once
- `requests`: counts requests
- `probe`: tries a store before it is used
- `clock`: the time by a store's own clock, told by an object that is written and listed
"""

__all__ = [
    "aws_faults",
    "certificates",
    "clock",
    "dynamodb_access",
    "keys",
    "local_folders",
    "location",
    "options",
    "parallel",
    "probe",
    "ranges",
    "requests",
    "store",
]
