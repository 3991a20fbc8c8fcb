#!/bin/sh
# Prints the path of a Python 3.11 to 3.13 that runs and can make a virtual environment; PYTHON=... names one.
suitable='
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(1)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(2)
print(sys.executable)
'
incomplete=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    # A name on PATH proves little: the shims of version managers exist and fail.
    path=$("$candidate" -c "$suitable" 2>/dev/null)
    case $? in
        0) echo "$path"; exit 0 ;;
        2) incomplete=$candidate ;;
    esac
done

if [ -n "$incomplete" ]; then
    echo "$incomplete cannot make a virtual environment because its venv module is not installed: install it" \
        "(Debian and Ubuntu: apt-get install python3-venv) or name another Python with PYTHON=..." >&2
else
    echo "No Python 3.11 to 3.13 found among ${PYTHON:-python3, python3.13, python3.12 and python3.11}: install one," \
        "or name it: make PYTHON=/path/to/python3.13 ..." >&2
fi
exit 1
