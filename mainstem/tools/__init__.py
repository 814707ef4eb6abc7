"""Tools on a directory of durable state: check it, look into it, copy it out and bring it back.

    report = tools.verify("bank/")                       # reads every byte; report.ok
    tools.inspect("bank/").tables["Account"].rows        # what is in it
    tools.export("bank/", "saved/")                      # Parquet files and a manifest, one version
    tools.restore("saved/", "bank2/")                    # a new directory that goes on from there

All of them read beside a running program without its lock and without disturbing it.
"""

from mainstem.tools.exporting import Exported, export
from mainstem.tools.files import Damage
from mainstem.tools.inspecting import CommitInfo, FileInfo, Inspection, TableInfo, inspect, inspect_commit
from mainstem.tools.restoring import Restored, restore
from mainstem.tools.verifying import Report, verify
from mainstem.tools.ways import Way

__all__ = [
    "CommitInfo",
    "Damage",
    "Exported",
    "FileInfo",
    "Inspection",
    "Report",
    "Restored",
    "TableInfo",
    "Way",
    "export",
    "inspect",
    "inspect_commit",
    "restore",
    "verify",
]
