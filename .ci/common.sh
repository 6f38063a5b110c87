# What the gate and the nightly run share; to be sourced. It leaves nothing in the checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/jobexec-ci-XXXXXX")
trap 'wait; rm -rf "$work"' EXIT # an installation that still runs would put files back
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export HYPOTHESIS_STORAGE_DIRECTORY="$work/hypothesis"
# Compiled once, and not by each of hundreds of processes; but beside the checkout.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$work/pycache"

section() { printf '\n=== %s (%d s)\n' "$1" "$SECONDS"; }
fail() { printf 'ci: %s\n' "$1" >&2; exit 1; }

# Prints the path of a Python of the given version, from PATH or from pyenv.
python_of() {
    local candidate
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python \
        "$(command -v "python$1" || true)" "$(command -v python3 || true)"; do
        # A shim of pyenv is on PATH also for versions that are not switched on: ask it.
        if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1)" = "$1" ]; then
            echo "$candidate"
            return
        fi
    done
    fail "Python $1 not found"
}

install_chromium() {
    if command -v chromium chromium-browser google-chrome >/dev/null; then return; fi
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >"$work/chromium.log" 2>&1 ||
        echo "ci: no Chromium, the browser tests will be skipped: $(tail -1 "$work/chromium.log")"
}

# MariaDB, PgBouncer, promtool of Prometheus, the tool that makes network namespaces, and gettext, which finds the strings
# to translate: a user's machine need not have them.
install_tools() {
    local missing=()
    PATH="$PATH:/usr/sbin:/sbin" command -v pgbouncer >/dev/null || missing+=(pgbouncer)
    [ -n "${JOBEXEC_TEST_MARIADB:-}" ] || PATH="$PATH:/usr/sbin:/sbin" command -v mariadbd >/dev/null ||
        missing+=(mariadb-server)
    PATH="$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || missing+=(iproute2)
    command -v xgettext >/dev/null || missing+=(gettext)
    command -v promtool >/dev/null || missing+=(prometheus)
    if [ ${#missing[@]} -eq 0 ]; then return; fi
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$work/tools.log" 2>&1 ||
        echo "ci: no ${missing[*]}, tests that need them will be skipped: $(tail -1 "$work/tools.log")"
}

# make_venv NAME PYTHON REQUIREMENT...: an environment with this checkout, editable
make_venv() {
    local venv="$work/$1" python="$2"
    shift 2
    # What is not imported need not be compiled.
    "$python" -m venv "$venv" && "$venv/bin/pip" install -qq --no-compile "$@"
}
