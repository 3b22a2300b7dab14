"""Real servers for tests and scripts, without Docker: MinIO, fake-gcs-server, Azurite, DynamoDB Local, PostgreSQL.

One module for each, with `start()`; `servers.fixtures` has a pytest fixture for each.  `make servers` installs
their programs into `.servers/`.
"""
