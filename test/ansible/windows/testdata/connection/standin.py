"""A connection to a Windows host that the test stands in for. What winrm and ssh would send goes to the test by a socket."""

import base64
import json
import os
import socket

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
    name: standin
    short_description: A stand-in for a Windows host
    description: Hands everything to the test that listens on WEFT_STANDIN.
    author: weftnet
"""


class Connection(ConnectionBase):
    transport = "standin"
    module_implementation_preferences = (".ps1", ".exe", "")
    has_pipelining = True
    always_pipeline_modules = True
    allow_executable = False
    has_native_async = True
    _shell_type = "powershell"

    def _ask(self, **words):
        words["host"] = self._play_context.remote_addr
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.environ["WEFT_STANDIN"])
            s.sendall(json.dumps(words).encode() + b"\n")
            with s.makefile("rb") as f:
                answer = json.loads(f.readline())
        if answer.get("lost"):
            raise AnsibleConnectionFailure("the connection is lost")
        return answer

    def _connect(self):
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        answer = self._ask(kind="exec", command=cmd, stdin=(in_data or b"").decode())
        return answer["rc"], base64.b64decode(answer["stdout"]), base64.b64decode(answer["stderr"])

    def put_file(self, in_path, out_path):
        self._ask(kind="put", source=in_path, target=self._shell._unquote(out_path))

    def fetch_file(self, in_path, out_path):
        self._ask(kind="fetch", source=self._shell._unquote(in_path), target=out_path)

    def close(self):
        pass

    def reset(self):
        pass
