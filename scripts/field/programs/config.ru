# A Rack application with a short page.
page = "x" * 400
run ->(_) { [200, { "Content-Length" => page.bytesize.to_s }, [page]] }
