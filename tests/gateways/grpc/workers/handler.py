"""What zbctl runs for each job: the job's variables come in, the variables of its completion go out."""

import json
import sys

variables = json.load(sys.stdin)
if variables.get("act") == "fail":
    sys.exit("no luck")
json.dump({"by": "go", "seen": sorted(variables)}, sys.stdout)
