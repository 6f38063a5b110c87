"""Those who enqueue, ask and interfere: `everybody` acts in the driver, `callers` are processes of their own."""
