# shellcheck shell=bash disable=SC2034
# Set-up that examples/run, tests/run and .ci/run share; they source it. Needs bash, and Debian 12 or a recent Ubuntu.
#
#   install_packages NAME...          installs what is missing of the named Debian packages
#   configure PRESET                  configures a preset of CMakePresets.json
#   build PRESET [NINJA-TARGET...]    the same, then builds it
#   say, stop                         a line to standard error; the same, then exit 2

# What the library and the jnorm program are built with, and the text that the demo trains on.
build_packages=(cmake ninja-build g++ libopenblas-dev libxtensor-dev libxtensor-blas-dev libxsimd-dev libfmt-dev
                nlohmann-json3-dev libcli11-dev fortunes)
# What the test and benchmark programs need besides. Every preset but examples/run's targets uses them.
test_packages=(doctest-dev libbenchmark-dev libboost-context-dev)
# The tsan preset is built by clang, so that the second compiler sees every source too.
tsan_packages=(clang libclang-rt-dev)
# The mutation run finds the derivatives' terms in clang's syntax trees.
mutation_packages=(clang python3 git)
# What .ci/run checks the sources with.
check_packages=(clang-format clang-tidy)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf 'jnorm: %s\n' "$*" >&2; }

stop() {
  say "$@"
  exit 2
}

is_installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

install_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null ||
    stop "this script installs Debian's packages, but this system has no dpkg. Install the likes of: $*"
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=() install="apt-get install --yes --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    # Without a terminal sudo couldn't ask for a password.
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo --non-interactive true 2>/dev/null; }; then
      as_root=(sudo)
    else
      say "some packages are missing and only root can install them. Run this as root, then $0 again:"
      printf '%s\n' "apt-get update && $install"
      exit 2
    fi
  fi

  say "installing ${#missing[@]} packages: ${missing[*]}"
  local log
  log=$(mktemp)
  # A source that can't be refreshed matters only if the installation then fails.
  if ! "${as_root[@]}" sh -c "export DEBIAN_FRONTEND=noninteractive; apt-get update; $install" </dev/null >"$log" 2>&1
  then
    tail -n 20 "$log" >&2
    rm "$log"
    say "apt-get failed (its last lines stand above). To see all of it: $install"
    exit 1
  fi
  rm "$log"
}

# One job a core, but no more than memory allows: a source that includes xtensor takes up to 1.5 GB to compile.
build_jobs() {
  local cores memory_mb limit_bytes jobs
  cores=$(nproc)
  memory_mb=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
  limit_bytes=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || true)  # a container's limit; a number or "max"
  if [[ $limit_bytes =~ ^[0-9]+$ ]] && ((limit_bytes / 1048576 < memory_mb)); then
    memory_mb=$((limit_bytes / 1048576))
  fi
  jobs=$((memory_mb / 1536))
  ((jobs > cores)) && jobs=$cores
  ((jobs < 1)) && jobs=1
  printf '%s\n' "$jobs"
}

configure() {
  local preset=$1 log
  log=$(mktemp)
  if ! cmake -S "$root" --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    rm "$log"
    say "cmake could not configure build/$preset (its words stand above)"
    exit 1
  fi
  rm "$log"
}

build() {
  local preset=$1 folder="$root/build/$1" targets=()
  shift
  (($#)) && targets=(--target "$@")
  configure "$preset"
  [[ -e $folder/.ninja_log ]] || say "building in build/$preset; the first time takes some minutes"
  # Ninja's progress is one line that changes on a terminal; elsewhere only warnings and errors are shown.
  local ninja=(cmake --build "$folder" --parallel "$(build_jobs)" "${targets[@]}")
  if [[ -t 2 ]]; then
    "${ninja[@]}" >&2
  else
    "${ninja[@]}" -- --quiet | sed '/^ninja: no work to do/d' >&2
  fi || {
    say "the build in build/$preset failed (the compiler's words stand above)"
    exit 1
  }
}
