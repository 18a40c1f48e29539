#!/bin/bash
# Builds the fuzz targets of the preset fuzz into $OUT, with seeds, dictionary and limits. $CC, $CXX, $CFLAGS, $CXXFLAGS and
# $LIB_FUZZING_ENGINE come from the environment, the sanitizer is in the flags: the build adds none of its own. Targets and
# their limits come from the list that CMake writes, so that they are those of ./sinktrap nightly.
set -eu
source_folder=${SINKTRAP_SOURCES:-$SRC/sinktrap}
build=${WORK:-/tmp}/sinktrap-build

# Packages like fmt and RapidCheck are compiled against libstdc++; the other library cannot link them.
export CFLAGS=${CFLAGS-} CXXFLAGS=${CXXFLAGS-}
CXXFLAGS=${CXXFLAGS//-stdlib=libc++/}

cmake -S "$source_folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF -DSINKTRAP_CUDA=OFF \
  -DSINKTRAP_FUZZ=ON -DSINKTRAP_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
  -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH="\$ORIGIN/lib"
ninja -C "$build" fuzzers

# Targets run on another machine: what is not part of its system goes with them.
mkdir -p "$OUT/lib"
cp "$source_folder/fuzz/sinktrap.dict" "$OUT/"
count=0
while read -r name flags; do
  [[ -n $name && $name != \#* ]] || continue
  cp "$build/fuzz/$name" "$OUT/"
  ldd "$build/fuzz/$name" | awk '/fmt|boost/ && $3 ~ /^\// { print $3 }' | while read -r library; do
    cp -L "$library" "$OUT/lib/"
  done
  if [[ -d $build/fuzz/seeds/$name ]]; then
    rm -f "$OUT/${name}_seed_corpus.zip"
    (cd "$build/fuzz/seeds/$name" && zip -q -r "$OUT/${name}_seed_corpus.zip" .)
  fi
  {
    echo "[libfuzzer]"
    echo "dict = sinktrap.dict"
    for flag in $flags; do
      flag=${flag#-}
      [[ $flag == dict=* ]] || echo "${flag%%=*} = ${flag#*=}"
    done
  } >"$OUT/$name.options"
  count=$((count + 1))
done <"$build/fuzz/targets.txt"
((count > 0)) || { echo "build.sh: $build/fuzz/targets.txt names no target" >&2; exit 1; }
echo "build.sh: $count targets in $OUT"
