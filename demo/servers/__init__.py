"""Real servers on 127.0.0.1, as the demo and the tests start them; their programs are fetched into ``.cache``.

Read in this order:

- `server_process`: the process of a server, its output, and the condition by which it is ready
- `fetching`: one process fetches at a time
- `jars`: jars of Maven Central
- `opensearch`: a search index
- `kafka`: a broker
"""
