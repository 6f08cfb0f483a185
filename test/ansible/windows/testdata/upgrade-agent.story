service weft-node is stopped
file C:\Program Files\weft\weft.exe
weft service start --ready 300s
