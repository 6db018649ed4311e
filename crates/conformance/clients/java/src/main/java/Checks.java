import java.util.Objects;
import java.util.concurrent.Callable;

/** What the checks share: each prints a line, and the last is {@code ok}. */
final class Checks {
    private Checks() {}

    static void same(String name, Object got, Object expected) {
        if (!Objects.deepEquals(got, expected)) {
            throw new AssertionError(name + ": " + got + " instead of " + expected);
        }
        System.out.println("passed: " + name);
    }

    static void failure(String name, Callable<?> operation) {
        Object value;
        try {
            value = operation.call();
        } catch (Exception error) {
            System.out.println("passed: " + name);
            return;
        }
        throw new AssertionError(name + ": no error, but " + value);
    }

    /** Bytes of all kinds. */
    static byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        for (int n = 0; n < length; n++) {
            bytes[n] = (byte) (n * 31 + n / 256);
        }
        return bytes;
    }

    /** Says that all is well, and ends the program whatever threads a client left behind. */
    static void done() {
        System.out.println("ok");
        System.exit(0);
    }
}
