#!/bin/sh
# Makes the program verge-video in a directory: what it needs of Python goes into an
# environment of its own beside it. Nothing of the system is changed. Run again, it
# does only what is not done yet.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-bin}
needs=$(cat "$here/requirements.txt")

fail() {
	echo "setup.sh: $1" >&2
	echo "setup.sh: $2" >&2
	exit 1
}

mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
env=$bin/video-env
command -v python3 >/dev/null ||
	fail "there is no python3 in the PATH" "install Python 3.9 or newer with venv (Debian: sudo apt install python3-venv), then run this again"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
	fail "python3 is $(python3 -V 2>&1), which is too old" "put Python 3.9 or newer first in the PATH, then run this again"

# The mark is written last: an environment without it is one that was not finished.
if [ "$(cat "$env/made-of" 2>/dev/null)" = "$needs" ]; then
	echo "$env is there already"
else
	echo "making an environment of Python in $env"
	rm -rf "$env"
	python3 -m venv "$env" ||
		fail "python3 cannot make an environment" "install its module venv (Debian: sudo apt install python3-venv), then run this again"
	echo "fetching OpenCV, NumPy and the pictures of scikit-image (90 MB)"
	# What scikit-image itself needs (SciPy and more) is not: its pictures are read as files.
	"$env/bin/pip" install --quiet --disable-pip-version-check --no-input --retries 2 --no-deps -r "$here/requirements.txt" ||
		fail "pip could not fetch them, as it says above" "see that the package index can be reached (behind a proxy: HTTPS_PROXY; with an index of your own: PIP_INDEX_URL), then run this again"
	"$env/bin/python" -c 'import cv2, numpy; cv2.HOGDescriptor_getDefaultPeopleDetector()' ||
		fail "OpenCV does not work in $env, as it says above" "see whether there are wheels of it for this machine ($(uname -sm)): https://pypi.org/project/opencv-python-headless/#files"
	printf '%s\n' "$needs" >"$env/made-of"
fi

cp "$here/video.py" "$env/video.py"
cat >"$bin/verge-video.new" <<END
#!/bin/sh
exec "$env/bin/python" "$env/video.py" "\$@"
END
chmod +x "$bin/verge-video.new"
mv "$bin/verge-video.new" "$bin/verge-video"
echo "made $bin/verge-video; to remove it: rm -r $env $bin/verge-video"
