#!/usr/bin/env python3
"""Two commands in sandboxes of their own, one reading what the other prints,
and a third one that reads both of two outputs by name."""
from sandlock import Sandbox

quiet = Sandbox(clean_env=True)

words = quiet.cmd(["printf", "%s\\n", "pear", "apple", "fig"])
sort = quiet.cmd(["sort"])
print((words | sort).run().check().stdout.decode(), end="")

gather = (
    quiet.cmd(["echo", "six"]).as_("number")
    + quiet.cmd(["echo", "pears"]).as_("things")
    | quiet.cmd(["sh", "-c", 'read a <&3; read b; echo "$a $b"'])
)
print(gather.run().check().stdout.decode(), end="")
