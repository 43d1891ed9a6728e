#!/bin/sh
# Makes the program verge-video in a directory: what it needs of Python goes into an
# environment of its own beside it. Nothing of the system is changed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:?usage: setup.sh DIRECTORY, one that is in the PATH of workers}
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
if ! [ -x "$bin/video-env/bin/python" ]; then
	python3 -m venv "$bin/video-env"
	"$bin/video-env/bin/pip" install --quiet --disable-pip-version-check "opencv-python-headless<5" scikit-image
fi
cp "$here/video.py" "$bin/video-env/video.py"
cat > "$bin/verge-video" <<END
#!/bin/sh
exec "$bin/video-env/bin/python" "$bin/video-env/video.py" "\$@"
END
chmod +x "$bin/verge-video"
