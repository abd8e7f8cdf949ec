"""A stand-in for curl on machines without it, for as much of it as the documentation uses."""

import argparse
import sys

import httpx


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-S", "--show-error", action="store_true")
    parser.add_argument("-f", "--fail", action="store_true")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data")
    asked = parser.parse_args()
    headers = dict(header.split(": ", 1) for header in asked.header)
    method = "GET" if asked.data is None else "POST"
    answer = httpx.request(method, asked.url, headers=headers, content=asked.data, trust_env=False)
    if asked.fail and answer.is_error:
        sys.stderr.write(f"curl: (22) The requested URL returned error: {answer.status_code}\n")
        return 22
    sys.stdout.write(answer.text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
